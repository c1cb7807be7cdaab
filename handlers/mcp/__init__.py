"""`hami-bot mcp`: the reading verbs as tools for a program that speaks the Model Context Protocol."""
