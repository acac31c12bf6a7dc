/** The log of the hooks, a file beside their events: neither the hook process nor its helper has a terminal. */
import { appendFileSync, mkdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { createLogger, type Logger } from "../../shared/runtime/observability/log.ts";
import type { HookConfig } from "./config.ts";

const BYTES_MAX = 1_000_000;

export function openHookLog({ hookDir, logLevel }: HookConfig): Logger {
  mkdirSync(hookDir, { recursive: true, mode: 0o700 });
  const path = join(hookDir, "hook.log");
  const write = (line: string): void => {
    try {
      if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > BYTES_MAX) truncateSync(path);
      appendFileSync(path, line, { mode: 0o600 });
    } catch {
      // A full disk must not end the helper, which has the agent's work in its hands.
    }
  };
  return createLogger({ service: "fleet-hook", level: logLevel, destination: { write } });
}
