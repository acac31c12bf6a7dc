/**
 * The options of a FoundationDB transaction. They are set on each one, before its first use: the engine keeps only some
 * of them over a retry, and none for a new transaction.
 */
import type { Transaction } from "foundationdb";
import type { Client } from "./client.ts";

type OptionCodes = Client["TransactionOptionCode"];

export interface EngineOptions {
  /** Milliseconds after which the client library gives up by itself. */
  readonly timeoutMs: number;
  readonly priority: "default" | "batch";
}

/** As option code and value. */
export function optionsOf(
  codes: OptionCodes,
  options: EngineOptions,
): [code: number, value: number | null][] {
  // Zero would switch the timeout off, and with it the only thing that ends a wait for an absent cluster.
  const list: [number, number | null][] = [[codes.Timeout, Math.max(1, Math.ceil(options.timeoutMs))]];
  if (options.priority === "batch") list.push([codes.PriorityBatch, null]);
  return list;
}

export function setOptions(native: Transaction, client: Client, options: EngineOptions): void {
  for (const [code, value] of optionsOf(client.TransactionOptionCode, options)) native.setOption(code, value);
}
