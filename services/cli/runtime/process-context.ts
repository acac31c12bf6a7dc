// The arguments, the environment, the three streams and the clock of a call, passed in as one value: no code below
// main.ts touches the process, and a test can replace all of it.

import type { Environment } from "../../../shared/runtime/settings/config.ts";
import type { InputKind } from "../input/input-kind.ts";

export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

export interface ProcessContext {
  /** The arguments, without the program's own name. */
  readonly argv: readonly string[];
  /** The file that Node started; undefined if there is none. */
  readonly script?: string | undefined;
  readonly env: Environment;
  readonly stdin: NodeJS.ReadStream;
  readonly inputKind: InputKind;
  readonly stdout: Output;
  readonly stderr: Output;
  /** The current time in milliseconds since 1970. */
  now(): number;
}
