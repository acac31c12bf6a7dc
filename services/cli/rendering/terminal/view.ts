// The properties of an output stream: its colours, its width, and the time from which "5m ago" is counted.

import { createRequire } from "node:module";
import type { Environment } from "../../../../shared/runtime/settings/config.ts";
import type { Output } from "../../runtime/process-context.ts";

export type Colors = ReturnType<typeof import("picocolors").createColors>;

export interface View {
  readonly colors: Colors;
  /** The current time in milliseconds since 1970. */
  readonly now: number;
  /** The columns of the terminal; undefined for a file or a pipe, which takes lines of any length. */
  readonly width: number | undefined;
}

const { createColors } = createRequire(import.meta.url)("picocolors") as typeof import("picocolors");

export function createView(
  output: Output,
  { color, env, now }: { color: boolean; env: Environment; now: number },
): View {
  const colored = color && output.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";
  return { colors: createColors(colored), now, width: widthOf(output) };
}

const COLUMNS_USUAL = 80;

/** A terminal without a known width reports 0 or undefined. */
function widthOf({ isTTY, columns }: Output): number | undefined {
  return isTTY === true ? columns || COLUMNS_USUAL : undefined;
}
