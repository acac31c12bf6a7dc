// How much each measure may grow and still count as flat. The limits are above the noise of a run of half an hour and far below what would
// matter in a month: they find what grows with every task or agent.

import { FOLDER, type Kind, OF_RESIDENTS, ROWS } from "../sizes/sample.ts";

export interface Growth {
  readonly per: "hour" | "command";
  readonly amount: number;
  /** The share of the mean, if that is more. */
  readonly share?: number;
}

const MIB = 1024 * 1024;

const hourly = (amount: number, share = 0): Growth => ({ per: "hour", amount, share });
const perCommand = (amount: number): Growth => ({ per: "command", amount });

const LIMITS: Readonly<Record<Kind, Growth | null>> = {
  // Its mapped files grow with the store.
  resident: null,
  anonymous: hourly(16 * MIB, 0.1),
  live_heap: hourly(2 * MIB, 0.05),
  external: hourly(2 * MIB, 0.1),
  handles: hourly(4),
  descriptors: hourly(4),
  threads: hourly(1),
  messages: hourly(50, 0.02),
  bytes: hourly(MIB, 0.02),
  consumers: hourly(1),
  connections: hourly(4),
  subscriptions: hourly(8),
  files: hourly(8, 0.02),
  rows: hourly(100, 0.05),
  used: perCommand(24_000),
  free: hourly(8 * MIB, 0.25),
  readers: hourly(4),
  behind: hourly(50),
};

/**
 * The families of rows that the fleet keeps by design, with the bytes that a command may add to them: for good, for two days or more, or with
 * the last checkpoint of a completed task, which is kept for a day at least. About twice what the load of a soak costs.
 */
const KEPT_BYTES: Readonly<Record<string, number>> = {
  // For good: the audit trail with its proofs, what it refers to, and the feed of the search index.
  ...{ audit: 3_500, signatures: 2_500, log_places: 250, log_tiles: 250, tombstones: 300, ids: 100 },
  ...{ tasks: 150, handoffs: 150, task_handoffs: 20, feed: 600 },
  // For as long as the policy says, a day at least.
  ...{ access_blocks: 1_000, access_tasks: 350, access_sessions: 5 },
  // For two days: a repeated command has one effect.
  ...{ idem: 1_000, expiry: 150 },
  // With the last checkpoint of each completed task.
  ...{ checkpoints: 1_500, versions: 1_500, chunks: 1_500, order: 60, children: 60 },
  ...{ ix: 300, text: 3_000, posted: 60 },
};

/** What the fleet keeps of each task in its folder, and files of the store and of its mirror. */
const KEPT_FILES: Readonly<Record<string, Partial<Record<Kind, number>>>> = {
  checkpoints: { files: 1, bytes: 12_000 },
  store: { bytes: 32_000 },
};

/** null: the measure is not judged. */
export function limitOf(subject: string, kind: Kind): Growth | null {
  const family = subject.startsWith(ROWS) ? subject.slice(ROWS.length) : undefined;
  if (family?.endsWith(OF_RESIDENTS)) return LIMITS[kind];
  const bytes = KEPT_BYTES[family ?? ""];
  if (bytes !== undefined) return kind === "bytes" ? perCommand(bytes) : null;
  const folder = subject.startsWith(FOLDER) ? subject.slice(FOLDER.length) : undefined;
  const amount = KEPT_FILES[folder ?? ""]?.[kind];
  return amount === undefined ? LIMITS[kind] : perCommand(amount);
}
