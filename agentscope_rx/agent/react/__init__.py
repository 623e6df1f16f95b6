"""The reasoning and acting agent, stage by stage."""
