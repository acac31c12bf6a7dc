/** The state of the parts that a fleet stands on: the streams of its bus and the disks of its machines. */
import { z } from "zod";

export const FINDING_KINDS = ["missing", "altered", "paused", "sealed", "nearly_full", "full"] as const;

export const streamFindingSchema: z.ZodType<StreamFinding> = z.looseObject({
  stream: z.string(),
  consumer: z.string().nullable(),
  kind: z.enum(FINDING_KINDS),
  detail: z.string(),
  repaired: z.boolean(),
  blocks: z.boolean(),
});

/** A stream or durable consumer of the bus that is not as Fleet needs it. */
export interface StreamFinding {
  readonly stream: string;
  /** null: the stream itself. */
  readonly consumer: string | null;
  readonly kind: (typeof FINDING_KINDS)[number];
  /** The settings that differ, or the size. */
  readonly detail: string;
  readonly repaired: boolean;
  /** Whether services cannot do their work until it is repaired. */
  readonly blocks: boolean;
}

export const diskStatusSchema: z.ZodType<DiskStatus> = z.looseObject({
  disk_of: z.array(z.enum(["store", "bus"])),
  free_bytes: z.number(),
  total_bytes: z.number(),
  min_free_bytes: z.number(),
  state: z.enum(["ok", "low", "full"]),
});

/** A disk of the machine on which the answering service runs. */
export interface DiskStatus {
  /** `store`: the records; `bus`: the streams of the fleet's own bus. */
  readonly disk_of: readonly ("store" | "bus")[];
  readonly free_bytes: number;
  readonly total_bytes: number;
  /** Below it the disk is full and commands are refused; below twice as much it is low. 0: not guarded. */
  readonly min_free_bytes: number;
  readonly state: "ok" | "low" | "full";
}
