/** Counters: numbers for people, kept by atomic additions so that no transaction waits for another. Nothing is decided by them. */
import type { Reader } from "../store/store.ts";
import { systemKeys } from "./keyspace.ts";

/** What has been counted under `name` so far; 0 when nothing was. */
export async function readCount(reader: Reader, name: "tasks" | "checkpoints" | "events"): Promise<number> {
  const value = await reader.get(systemKeys.count(name));
  return value === undefined ? 0 : Number(Buffer.from(value).readBigInt64LE());
}
