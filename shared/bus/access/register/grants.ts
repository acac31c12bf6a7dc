/**
 * The register of issued credentials, a file beside the keys. It holds no secret. Credentials that programs of
 * the fleet's own user make for themselves are not in it. A line is appended and synced before the credentials
 * are shown, so none is in use that `fleet access list` does not know.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type GrantAct,
  type GrantLine,
  type GrantRecord,
  grantLineSchema,
} from "../../../protocol/access-grant.ts";
import { StartupError } from "../../../runtime/process/startup.ts";
import { REGISTER_FILE } from "../access-files.ts";
import type { Revocations } from "../claims.ts";
import { appendLine, parsedLines } from "./appended-lines.ts";

export interface RegisteredGrant extends GrantRecord {
  /** The scopes of the API key that has the credentials. null: they have all rights of their role. */
  readonly scopes: readonly string[] | null;
  /** null: valid until its end. */
  readonly revoked_at: string | null;
}

/** The oldest first. Throws StartupError for a damaged register, because a lost line may be a revocation. */
export function readGrants(folder: string): RegisteredGrant[] {
  const found = new Map<string, RegisteredGrant>();
  for (const line of readLines(folder)) {
    if ("issued" in line) found.set(line.issued.id, granted(line));
    else if ("revoked" in line) {
      const grant = found.get(line.revoked.id);
      if (grant !== undefined) found.set(grant.id, { ...grant, revoked_at: line.revoked.at });
    }
  }
  return [...found.values()];
}

/** Whether the credentials were valid at the time. */
export function isGrantValidAt({ issued_at, expires_at, revoked_at }: RegisteredGrant, at: string): boolean {
  const time = Date.parse(at);
  const isEnded = (end: string | null): boolean => end !== null && Date.parse(end) <= time;
  return Date.parse(issued_at) <= time && !isEnded(expires_at) && !isEnded(revoked_at);
}

function granted(line: Extract<GrantLine, { readonly issued: unknown }>): RegisteredGrant {
  return { ...line.issued, scopes: line.scopes ?? null, revoked_at: null };
}

/** What was done with credentials and is not in the audit chain, in order; `through`: for {@link appendGrant}. */
export function unrecordedActs(folder: string): {
  readonly acts: readonly (GrantAct & { readonly tenant: string })[];
  readonly through: GrantLine;
} {
  const grants = new Map<string, GrantRecord>();
  const acts: (GrantAct & { tenant: string })[] = [];
  let recorded = 0;
  for (const line of readLines(folder)) {
    // Two commands at once may append their lines in the other order.
    if ("recorded" in line) recorded = Math.max(recorded, line.recorded.acts);
    else if ("issued" in line) grants.set(line.issued.id, line.issued);
    const id = "issued" in line ? line.issued.id : "revoked" in line ? line.revoked.id : undefined;
    const grant = id === undefined ? undefined : grants.get(id);
    if (grant === undefined) continue;
    const { role, name, tenant } = grant;
    acts.push({ act: "issued" in line ? "issue" : "revoke", id: grant.id, role, name, tenant });
  }
  return { acts: acts.slice(recorded), through: { recorded: { acts: acts.length } } };
}

function readLines(folder: string): GrantLine[] {
  const path = join(folder, REGISTER_FILE);
  return parsedLines(read(path), parse, (line) => {
    throw new StartupError("the register of credentials is damaged", {
      exitCode: 78,
      details: { path, line },
      hint: "restore the file; without it, revoked credentials could be valid again",
    });
  });
}

export function appendGrant(folder: string, line: GrantLine): void {
  // A new register would forget every revocation.
  read(join(folder, REGISTER_FILE));
  appendLine(folder, REGISTER_FILE, line);
}

/**
 * For the claims of the account. The server compares the times, so credentials that were issued before the clock
 * was set back would survive a revocation with the current time.
 */
export function revocationsOf(grants: readonly RegisteredGrant[]): Revocations {
  const seconds = (time: string): number => Math.ceil(Date.parse(time) / 1_000);
  return Object.fromEntries(
    grants.flatMap(({ id, issued_at, revoked_at }) =>
      revoked_at === null ? [] : [[id, Math.max(seconds(revoked_at), seconds(issued_at))]],
    ),
  );
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new StartupError("the register of credentials is missing", {
      exitCode: 78,
      details: { path },
      hint: "restore the file; if no credentials were ever revoked, create an empty one",
    });
  }
}

function parse(line: string): GrantLine | undefined {
  try {
    return grantLineSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}
