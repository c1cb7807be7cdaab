"""What HAMi measures: its scheduler of allocations, vGPUmonitor of use."""
