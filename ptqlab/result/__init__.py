"""What a user holds after a run: the record with methods that show it, and the calls that make one."""
