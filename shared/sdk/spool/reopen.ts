/**
 * Puts sealed commands back that were set aside for want of their key. They are written to the spool before the file `aside` forgets them: a process that
 * is killed in between leaves them in both, and their command ids make that harmless.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { FleetError } from "../../protocol/errors.ts";
import { lockFolder } from "../../runtime/process/folder-lock.ts";
import { writeWhole } from "../../runtime/process/whole-file.ts";
import { ASIDE_FILE, SpoolFolder } from "./folder.ts";
import { type Aside, type Line, linesOf } from "./line.ts";
import type { SpoolSeal } from "./seal.ts";

const LOCK_WAIT_MS = 1_000;

export interface Reopened {
  /** The commands that wait again, to be sent like any other. */
  readonly reopened: number;
  /** The sealed commands whose key is still not named. */
  readonly sealed: number;
}

/** Throws CONFLICT while another process sends the commands of the spool. */
export async function reopenSealed(path: string, seal: SpoolSeal): Promise<Reopened> {
  const lock = lockFolder(path, { waitMs: LOCK_WAIT_MS });
  if (lock === undefined)
    throw new FleetError("CONFLICT", "another process sends the commands of this spool", {
      details: { spool: path, next: "repeat the command in a moment" },
    });
  try {
    return await reopen(path, seal);
  } finally {
    lock.release();
  }
}

async function reopen(path: string, seal: SpoolSeal): Promise<Reopened> {
  const bytes = await readFile(join(path, ASIDE_FILE)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return Buffer.alloc(0);
    throw error;
  });
  const kept: Uint8Array[] = [];
  const commands: Buffer[] = [];
  let sealed = 0;
  for (const line of linesOf(bytes)) {
    const command = sealedLineIn(line);
    const isOpen = command !== undefined && (await opens(command, seal));
    if (isOpen) commands.push(command);
    else kept.push(bytes.subarray(line.start, line.end));
    if (command !== undefined && !isOpen) sealed += 1;
  }
  if (commands.length > 0) {
    // They were admitted when they were spooled, so the limit is none for them.
    const folder = new SpoolFolder(path, Number.POSITIVE_INFINITY);
    await folder.append(Buffer.concat(commands));
    await folder.end();
    writeWhole(join(path, ASIDE_FILE), Buffer.concat(kept));
  }
  return { reopened: commands.length, sealed };
}

/** The bytes of a command that was set aside because of its key. */
function sealedLineIn(line: Line): Buffer | undefined {
  const aside: Aside | undefined = line.kind === "aside" ? line.aside : undefined;
  return aside?.reason === "sealed" ? Buffer.from(`\n${aside.line}`) : undefined;
}

async function opens(bytes: Buffer, seal: SpoolSeal): Promise<boolean> {
  const [line] = linesOf(bytes);
  return line?.kind === "command" && typeof (await seal.open(line.command)) !== "string";
}
