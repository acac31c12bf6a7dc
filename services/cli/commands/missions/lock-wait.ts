// The wait for a file: the call ends when the agent holds it, or when the wait is over.

import { setTimeout as sleep } from "node:timers/promises";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { LockResult, MissionHandle } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

const LOOK_MS = 500;

type Terms = Parameters<MissionHandle["requestLock"]>[1] & { readonly waitMs: number };

/** Throws CONFLICT if another agent still holds the file. */
export async function waitForLock(
  handle: MissionHandle,
  path: string,
  { waitMs, ...terms }: Terms,
  session: Session,
): Promise<LockResult> {
  const end = performance.now() + waitMs;
  for (;;) {
    const left = Math.max(0, Math.floor(end - performance.now()));
    const result = await handle.requestLock(path, { ...session.deadline, ...terms, waitMs: left });
    if (result.state === "held") return result;
    if (result.state === "timed_out") {
      const details = { path: result.path, held_by: result.heldBy };
      throw new FleetError("CONFLICT", "the wait for the file is over, and another agent holds it", {
        details,
      });
    }
    await sleep(Math.min(LOOK_MS, left + 1));
  }
}
