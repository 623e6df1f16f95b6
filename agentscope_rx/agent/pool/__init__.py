"""`ConversationPool`: the conversations of many users."""
