"""What HAMi measures: its scheduler measures allocations, vGPUmonitor measures use."""
