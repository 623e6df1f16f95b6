"""JSON schemas of arguments: made from functions, read from others, checked against values."""
