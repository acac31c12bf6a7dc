/**
 * The tables of rights that were in force, from their first use on: a file beside the register of credentials. The server gives each role the rights of
 * the version of Fleet that wrote its configuration, so an upgrade changes what the holders of old credentials may do.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { type RightsLine, rightsLineSchema } from "../../../protocol/access-grant.ts";
import { roleOperations } from "../../../protocol/operation-rights.ts";
import { StartupError } from "../../../runtime/process/startup.ts";
import { appendLine, linesText, parsedLines } from "./appended-lines.ts";

const FILE = "rights.jsonl";

/** Records the table of this version as in force, unless it is already. */
export function noteRights(folder: string, now: Date): void {
  const operations = roleOperations();
  const version = versionOf(operations);
  if (readRights(folder).at(-1)?.version === version) return;
  appendLine(folder, FILE, { at: now.toISOString(), version, operations });
}

function versionOf(operations: Readonly<Record<string, readonly string[]>>): string {
  return createHash("sha256").update(JSON.stringify(operations)).digest("hex");
}

/** The table in force at a time; null: the first one was recorded later. */
export function rightsAt(folder: string, at: string): RightsLine | null {
  return readRights(folder).findLast((one) => Date.parse(one.at) <= Date.parse(at)) ?? null;
}

/** Since when tables are recorded; null: there are none yet. */
export function rightsRecordedSince(folder: string): string | null {
  return readRights(folder)[0]?.at ?? null;
}

/** The oldest first. Throws StartupError for a damaged file. */
function readRights(folder: string): RightsLine[] {
  const path = join(folder, FILE);
  return parsedLines(linesText(path), rightsIn, (line) => {
    throw new StartupError("the history of the rights is damaged", {
      exitCode: 78,
      details: { path, line },
      hint: "restore the file; without it, nothing says what the roles could do in the past",
    });
  });
}

function rightsIn(line: string): RightsLine | undefined {
  try {
    const found = rightsLineSchema.parse(JSON.parse(line));
    return versionOf(found.operations) === found.version ? found : undefined;
  } catch {
    return undefined;
  }
}
