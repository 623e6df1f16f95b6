"""Where values come from. Each subscription reads or calls anew. `agentscope_rx.reactive` exports them."""
