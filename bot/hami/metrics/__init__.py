"""What HAMi measures: its scheduler reports allocations, vGPUmonitor reports use."""
