"""./bench: measures rdmaxx beside its peers and says where a goal is missed."""
