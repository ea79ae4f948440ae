"""The contract on the simulator, a process of its own."""
