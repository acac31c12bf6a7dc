// The end of a command that has none: Ctrl-C, or whoever stops it.

/** Ending is how one finishes following, so it is no failure. A second signal does what signals do. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}
