// Without its position, the mirror goes through the whole feed again and writes every file that the fleet has.

import { setTimeout as sleep } from "node:timers/promises";
import { mirrorFolderAt } from "../../../../shared/mirror/tool-folder.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { compareMirror, type MirrorFinding, type MirrorReport } from "./comparison.ts";

/** A reader takes the work of a killed one over within seconds. */
const BEGIN_MS_MAX = 30_000;
const POLL_MS = 200;

export async function completeMirror(session: Session, folder: string): Promise<MirrorReport> {
  await begin(session, folder);
  let isSecond = false;
  for (let before = Number.POSITIVE_INFINITY; ; ) {
    const report = await compareMirror(session, folder);
    const left = report.findings.filter(isLeft).length;
    if (left === 0) return report;
    // A comparison waits for the mirror, so after one that found as much again nothing is being written.
    if (left < before) before = left;
    else if (isSecond) return report;
    else {
      // A step of the mirror that ended just then set its position again.
      await begin(session, folder);
      [isSecond, before] = [true, Number.POSITIVE_INFINITY];
    }
  }
}

async function begin(session: Session, folder: string): Promise<void> {
  const mirror = mirrorFolderAt(folder, session.context.env);
  await mirror.forgetPosition();
  for (const end = performance.now() + BEGIN_MS_MAX; (await mirror.position()) === null; ) {
    if (performance.now() > end)
      throw new UsageError(
        "no reader writes to this folder",
        `Name the folder of FLEET_MIRROR_DIR; \`${session.programName} status\` shows whether the fleet runs.`,
      );
    await sleep(POLL_MS);
  }
}

function isLeft({ problem }: MirrorFinding): boolean {
  return problem !== "surplus";
}
