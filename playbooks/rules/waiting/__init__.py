"""Rules about a pending pod: what each refusal, bind and lock means, and the order of the causes."""
