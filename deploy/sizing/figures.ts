/** The measured figures, which `npm run sizing:measure` writes: counts of a real fleet, and processor times with their machine. */
import { readFileSync } from "node:fs";

/** The cost of one command, or of one sequence of them. */
export interface CommandCost {
  /** New rows with the bytes of their keys and values, by the subspace of the key layout. */
  readonly stored: Readonly<Record<string, { readonly rows: number; readonly bytes: number }>>;
  /** Transactions that wrote, with the keys that they wrote, by their label; without those that many commands share. */
  readonly transactions: Readonly<Record<string, { readonly writes: number; readonly keys: number }>>;
  readonly messages: Readonly<Record<string, { readonly messages: number; readonly bytes: number }>>;
  /** The size of the largest transaction of these labels, as the store counts it. */
  readonly transaction_bytes_max: number;
}

export const COSTS = ["take", "create", "create_large", "update", "finalize", "handoff", "recovery"] as const;
export type CostName = (typeof COSTS)[number];

export interface Counts {
  readonly costs: Readonly<Record<CostName, CommandCost>>;
  /** The JSON of the checkpoints as the agent sent them, in bytes. */
  readonly bodies: { readonly create: number; readonly create_large: number };
  /** A queued checkpoint of 4 KB. */
  readonly queued: { readonly bytes: number };
  /** Subject and body of a heartbeat. */
  readonly heartbeat: { readonly bytes: number };
  readonly memory: { readonly watchdog_bytes_per_agent: number };
}

/** In µs of processor time. */
export interface Times {
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly node: string;
    readonly nats_server: string;
    /** The use of all cores by other programs when the measurement began. */
    readonly busy_percent: number;
  };
  readonly commit: { readonly writer: number; readonly reader: number; readonly nats_server: number };
  readonly heartbeat: { readonly watchdog: number; readonly reader: number; readonly nats_server: number };
}

export interface Figures {
  readonly counts: Counts;
  readonly times: Times;
}

export const FIGURES = new URL("figures.json", import.meta.url);

export const readFigures = (): Figures => JSON.parse(readFileSync(FIGURES, "utf8")) as Figures;
