"""An executor and a verifier that work until a goal is reached."""
