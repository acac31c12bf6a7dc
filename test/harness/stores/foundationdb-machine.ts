// The two ways to run a FoundationDB server for tests: as a process or in a container.

export interface FoundationdbMachine {
  /** The line of the cluster file. */
  readonly connection: string;
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Kills a running server and removes everything that `start` made outside its directory. */
  remove(): Promise<void>;
  pause(): void | Promise<void>;
  continue(): void | Promise<void>;
  /** Runs `fdbcli` with one command and returns its output. */
  cli(command: string): Promise<string>;
  version(): Promise<string>;
}

/** The value of `fdbcli --timeout`, in seconds. */
export const CLI_TIMEOUT_S = "10";
