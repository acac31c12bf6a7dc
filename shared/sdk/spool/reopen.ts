/**
 * Puts sealed commands back that were set aside for want of their key. Before they are written to the spool, the file `aside` records that they may be sent from
 * now on, and it forgets them afterwards: a process that is killed in between leaves them in both. Repeated within the time in which the fleet remembers command
 * ids, that is harmless. Later they are kept for an operator, as the sender does with any command that may have been sent so long ago.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { FleetError } from "../../protocol/errors.ts";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { lockFolder } from "../../runtime/process/folder-lock.ts";
import { writeWhole } from "../../runtime/process/whole-file.ts";
import { ASIDE_FILE, SpoolFolder } from "./folder.ts";
import { type Aside, asideLine, commandLine, linesOf } from "./line.ts";
import type { SpoolSeal } from "./seal.ts";
import { isForgotten } from "./spool-sender.ts";

const LOCK_WAIT_MS = 1_000;

export interface Reopened {
  /** The commands that wait again, to be sent like any other. */
  readonly reopened: number;
  /** The sealed commands whose key is still not named. */
  readonly sealed: number;
  /** The commands that may have been sent too long ago. They stay aside. */
  readonly doubtful: number;
}

type Kind = "reopened" | "sealed" | "doubtful" | "other";

/** A line of the file `aside`. */
interface Sorted {
  readonly kind: Kind;
  /** As it is to stand there while commands are reopened. */
  readonly bytes: Uint8Array;
  /** The line with which the command goes back to the spool. */
  readonly command?: Uint8Array;
}

/** Throws CONFLICT while another process sends the commands of the spool. */
export async function reopenSealed(
  path: string,
  seal: SpoolSeal,
  clock: Pick<Clock, "now"> = systemClock,
): Promise<Reopened> {
  const lock = lockFolder(path, { waitMs: LOCK_WAIT_MS });
  if (lock === undefined)
    throw new FleetError("CONFLICT", "another process sends the commands of this spool", {
      details: { spool: path, next: "repeat the command in a moment" },
    });
  try {
    return await reopen(path, seal, clock.now());
  } finally {
    lock.release();
  }
}

async function reopen(path: string, seal: SpoolSeal, now: number): Promise<Reopened> {
  const file = join(path, ASIDE_FILE);
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
  const sorted: Sorted[] = [];
  for (const line of linesOf(bytes)) {
    const aside = line.kind === "aside" ? line.aside : undefined;
    const other: Sorted = { kind: "other", bytes: bytes.subarray(line.start, line.end) };
    sorted.push(aside?.reason === "sealed" ? await sortedAside(aside, other.bytes, { seal, now }) : other);
  }
  const of = (kind: Kind) => sorted.filter((one) => one.kind === kind);
  const commands = of("reopened").flatMap(({ command }) => command ?? []);
  if (commands.length > 0) {
    writeWhole(file, Buffer.concat(sorted.map((one) => one.bytes)));
    // They were admitted when they were spooled, so the limit is none for them.
    const folder = new SpoolFolder(path, Number.POSITIVE_INFINITY);
    await folder.append(Buffer.concat(commands));
    await folder.end();
  }
  const kept = sorted.filter(({ kind }) => kind !== "reopened");
  if (commands.length + of("doubtful").length > 0)
    writeWhole(file, Buffer.concat(kept.map((one) => one.bytes)));
  return { reopened: commands.length, sealed: of("sealed").length, doubtful: of("doubtful").length };
}

async function sortedAside(
  aside: Aside,
  bytes: Uint8Array,
  { seal, now }: { readonly seal: SpoolSeal; readonly now: number },
): Promise<Sorted> {
  const own = Buffer.from(`\n${aside.line}`);
  const [line] = linesOf(own);
  const opened = line?.kind === "command" ? await seal.open(line.command) : "damaged";
  if (typeof opened === "string") return { kind: "sealed", bytes };
  const { since } = aside;
  if (isForgotten(since, now))
    return { kind: "doubtful", bytes: asideLine({ ...aside, reason: "doubtful" }) };
  // The sender learns from the line itself since when it is in doubt: it may wait there for a long time.
  const command =
    since === undefined ? own : commandLine({ ...opened, sent: true, at: since }, await seal.sealingKey());
  return { kind: "reopened", bytes: asideLine({ ...aside, since: since ?? now }), command };
}
