"""Reports on compiled functions: kernel lists, pictures, bytes and operations, the roofline."""
