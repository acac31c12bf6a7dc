// `fleet audit anchors`: the copies of the audit log's checkpoints at places outside the store, with their time-stamps.

import { join } from "node:path";
import { type Command, Option } from "commander";
import {
  ANCHOR_TARGETS,
  type AnchorTarget,
  type AuditAnchor,
} from "../../../../shared/protocol/audit-anchors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption } from "../../input/limit.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextCommand } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

/** The first line of a checkpoint, as it may stand in the name of a file. */
const ORIGIN = /^fleet\/audit\/([A-Za-z0-9_-]+)\n/;

interface Flags {
  readonly target?: AnchorTarget;
  readonly before?: number;
  readonly limit?: number;
  readonly out?: string;
}

export function addAuditAnchors(group: Command, action: ActionFactory): void {
  const command = group
    .command("anchors")
    .description("List the anchors of the tenant's audit log, those of the newest checkpoints first.")
    .addOption(new Option("--target <target>", "only those of one target").choices(ANCHOR_TARGETS))
    .addOption(
      new Option("--before <size>", "only those of checkpoints with fewer entries").argParser(wholeNumber(1)),
    )
    .addOption(limitOption(LIMITS.anchors_limit_default, LIMITS.anchors_limit_max))
    .option("-o, --out <folder>", "write their checkpoints and time-stamps to files in this folder")
    .action(action(anchors));
  withExamples(command, (fleet) => ({
    "For an auditor, who verifies the time-stamps with `openssl ts -verify`": `${fleet} audit anchors --target timestamp --out evidence`,
    "In a nightly job": `${fleet} audit anchors --json > report.json`,
  }));
}

async function anchors(session: Session, { target, before, limit, out }: Flags): Promise<void> {
  const { admin } = await session.client();
  const page = await admin.auditAnchors({ ...session.deadline, target, beforeSize: before, limit });
  const files = out === undefined ? [] : await writeAnchors(out, page.anchors);
  // A checkpoint may have anchors of several targets, so the last one is not left out of the next page.
  const last = page.anchors.at(-1)?.size;
  const next =
    page.more && last !== undefined
      ? nextCommand(session.programName, session.context.argv, { option: "--before", value: String(last) })
      : undefined;
  const { renderAnchors } = await import("../../rendering/keys/audit-anchors.ts");
  await session.show(page, () => renderAnchors(page.anchors, { files, next }, session.view));
}

/** Returns the names of the files. */
async function writeAnchors(folder: string, anchors: readonly AuditAnchor[]): Promise<readonly string[]> {
  const [{ mkdir, readFile }, { writePrivateFile }] = await Promise.all([
    import("node:fs/promises"),
    import("../../runtime/output.ts"),
  ]);
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${folder} cannot be made: ${error.code}`, "Give a folder that you may write to.");
  });
  const files: string[] = [];
  for (const { target, size, checkpoint, token } of anchors) {
    const tenant = ORIGIN.exec(checkpoint)?.[1] ?? "unknown";
    const name = join(folder, `${tenant}-${size}-${target}`);
    const parts = {
      txt: Buffer.from(checkpoint),
      ...(token !== null && { tsr: Buffer.from(token, "base64") }),
    };
    for (const [ending, bytes] of Object.entries(parts)) {
      const path = `${name}.${ending}`;
      const known = await readFile(path).catch(() => null);
      // What was kept earlier is evidence, also against the fleet that answers now.
      if (known !== null && !known.equals(bytes))
        throw new UsageError(
          `${path} has another content`,
          "Give another folder, and compare the two files.",
        );
      if (known === null) await writePrivateFile(path, bytes);
      files.push(path);
    }
  }
  return files;
}
