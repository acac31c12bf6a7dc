// The negative control of the soak: a process that leaks.

export const LEAKS = ["memory", "descriptors"] as const;
export type Leak = (typeof LEAKS)[number];

export const LEAKING_PROCESS = "leaking process";
