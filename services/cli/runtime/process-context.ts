// What a command may touch: its arguments, its environment, its three streams and the time. Passed in as one value, so
// that nothing below main.ts reaches for the process.

import type { Environment } from "../../../shared/runtime/settings/config.ts";

export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
}

export interface ProcessContext {
  /** Without the program's own name. */
  readonly argv: readonly string[];
  /** The file that was started; undefined when there is none. */
  readonly script?: string | undefined;
  readonly env: Environment;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Milliseconds since 1970. */
  now(): number;
}
