"""What the providers share on the wire: JSON, turns of a chat, names, media. Pure."""
