// proofs.jsonl: for each audit entry of the export, in its order, the proof that it is in the log of the signed checkpoint.

import type { FileHandle } from "node:fs/promises";
import { FleetError } from "../../../../../shared/protocol/errors.ts";
import type { ExportLine } from "../../../../../shared/protocol/export-lines.ts";
import { parseJsonText } from "../../../../../shared/protocol/json.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import type { ArchiveWriter } from "../../../../../shared/transfer/bundle/archive-writer.ts";
import {
  jsonLine,
  type PendingReason,
  type ProofLine,
} from "../../../../../shared/transfer/bundle/bundle-files.ts";
import { memberLines } from "../../../../../shared/transfer/bundle/offline/archive.ts";
import type { Session } from "../../../runtime/session.ts";

/** Proofs that are read at once. */
const READS = 16;
const LOG_WAIT_MS = 20_000;

/** The log at the moment of the bundle. */
export interface BundledLog {
  readonly size: number;
  readonly note: string;
  readonly consistency: { readonly size: number; readonly proof: readonly string[] } | null;
  readonly publicKeys: readonly string[];
}

interface ProofParts {
  readonly client: FleetClient;
  readonly writer: ArchiveWriter;
  readonly file: FileHandle;
  /** null: it is not signed. */
  readonly log: BundledLog | null;
}

interface Place {
  readonly task: string;
  readonly seq: number;
}

/** Returns the numbers of entries with and without a proof. */
export async function writeProofs(
  session: Session,
  { client, writer, file, log }: ProofParts,
): Promise<{ readonly included: number; readonly pending: number }> {
  const counts = { included: 0, pending: 0 };
  const write = async (places: readonly Place[]): Promise<void> => {
    const lines = await Promise.all(places.map((place) => proofLine(session, client, { place, log })));
    for (const line of lines) {
      counts["pending" in line ? "pending" : "included"] += 1;
      await writer.append(jsonLine(line));
    }
  };
  const member = writer.member("export.jsonl");
  writer.begin("proofs.jsonl");
  let places: Place[] = [];
  for (const { task, seq } of placesIn(file.fd, member)) {
    places.push({ task, seq });
    if (places.length < READS) continue;
    await write(places);
    places = [];
  }
  await write(places);
  await writer.end();
  return counts;
}

/** Waits until the newest entry of the export is in the log, which takes seconds. A log that does not grow is not waited for. */
export async function awaitLog(
  { admin }: FleetClient,
  file: FileHandle,
  member: Parameters<typeof memberLines>[1],
): Promise<void> {
  let newest: (Place & { readonly at: string }) | null = null;
  for (const { entry, ...place } of placesIn(file.fd, member)) {
    const at = String((JSON.parse(entry) as { readonly at?: unknown }).at);
    if (newest === null || at > newest.at) newest = { ...place, at };
  }
  if (newest === null) return;
  try {
    const { task: taskId, seq } = newest;
    await admin.auditProof({ taskId, seq, deadlineMs: LOG_WAIT_MS });
  } catch (error) {
    // Its line in the bundle says what is missing.
    if (!(error instanceof FleetError)) throw error;
  }
}

function* placesIn(
  file: number,
  member: Parameters<typeof memberLines>[1],
): Generator<Place & { readonly entry: string }> {
  let task = "";
  for (const bytes of memberLines(file, member)) {
    const line = parseJsonText(String(bytes)) as ExportLine;
    if (line.kind === "task") task = line.task.task_id;
    if (line.kind === "audit") yield { task, seq: line.seq, entry: line.entry };
  }
}

async function proofLine(
  { deadline }: Session,
  { admin }: FleetClient,
  { place, log }: { readonly place: Place; readonly log: BundledLog | null },
): Promise<ProofLine> {
  const without = (pending: PendingReason): ProofLine => ({ ...place, pending });
  if (log === null) return without("unsigned_log");
  try {
    const { task: taskId, seq } = place;
    const { index, proof } = await admin.auditProof({ ...deadline, taskId, seq, size: log.size });
    return { ...place, index, proof };
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    if (error.code === "NOT_FOUND") return without("not_in_log");
    if (error.code === "CORRUPT") return without("damaged");
    throw error;
  }
}
