"""What the metrics port of HAMi's scheduler serves of one GPU, `GPU-gpu-1` of gpu-1."""

GIB = 1_073_741_824


def counted(name: str, size: int, *, old: bool = False) -> str:
    """A sample of what the scheduler counts for ml/NAME on the GPU of gpu-1; `old`: as up to 2.6."""
    if old:
        metric, labels = "vGPUPodsDeviceAllocated", ("podnamespace", "podname", "nodename", "deviceuuid")
    else:
        metric, labels = "hami_vgpu_memory_allocated_bytes", ("namespace", "pod", "node", "device_uuid")
    text = ",".join(
        f'{label}="{value}"' for label, value in zip(labels, ("ml", name, "gpu-1", "GPU-gpu-1"), strict=True)
    )
    return f'{metric}{{{text},zone="vGPU"}} {float(size):e}'


def scrape(*lines: str) -> str:
    """The samples, after the ones that tell which GPUs the scheduler knows, and what it counts of them."""
    of_gpu = 'device_uuid="GPU-gpu-1",node="gpu-1",zone="vGPU"'
    total = sum(float(line.rpartition(" ")[2]) for line in lines)
    known = f"hami_gpu_memory_limit_bytes{{{of_gpu}}} {16 * GIB}"
    return "\n".join([known, f"hami_gpu_memory_allocated_bytes{{{of_gpu}}} {total}", *lines])
