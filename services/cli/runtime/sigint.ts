// The end of a command that follows a stream: Ctrl-C, or a signal from its supervisor.

/** An interrupt is the normal end of such a command, not a failure. A second signal kills the process. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
}
