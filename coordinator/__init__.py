"""Who is alive and how busy: soft state, gathered and published."""
