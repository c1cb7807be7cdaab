"""A pod that waits for a node: what each refusal, bind and lock means, and the order of the causes."""
