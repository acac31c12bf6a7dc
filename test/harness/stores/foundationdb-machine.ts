// What a FoundationDB server for tests can run on: a process or a container.

/** Whatever runs the server. */
export interface Machine {
  /** The line of its cluster file. */
  readonly connection: string;
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Kills it, if it runs, and removes what `start` made outside its directory. */
  remove(): Promise<void>;
  pause(): void;
  continue(): void;
  /** Runs `fdbcli` with one command and returns what it printed. */
  cli(command: string): Promise<string>;
  version(): Promise<string>;
}

/** For `fdbcli --timeout`, in seconds. */
export const CLI_TIMEOUT_S = "10";
