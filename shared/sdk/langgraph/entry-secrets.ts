/** Removes secrets from the values of an entry, which are encoded in it: each is decoded, searched, and encoded again if it changed. */
import type { StoredValue, ThreadEntry } from "../../protocol/langgraph-entry.ts";

const JSON_TYPE = "json";

export async function entryWithoutSecrets(
  entry: ThreadEntry,
  clean: (values: readonly unknown[]) => Promise<readonly unknown[]>,
): Promise<ThreadEntry> {
  const stored = valuesIn(entry);
  const decoded = stored.map(decodedValue);
  const cleaned = await clean(decoded);
  const next = stored.map((value, i) => {
    const text = JSON.stringify(cleaned[i]);
    return text === JSON.stringify(decoded[i]) ? value : encodedValue(text);
  });
  return withValues(entry, next);
}

/** null: it is no JSON, and is not searched. */
function decodedValue([type, data]: StoredValue): unknown {
  if (type !== JSON_TYPE) return null;
  try {
    return JSON.parse(Buffer.from(data, "base64").toString());
  } catch {
    return null;
  }
}

const encodedValue = (text: string): StoredValue => [JSON_TYPE, Buffer.from(text).toString("base64")];

function valuesIn(entry: ThreadEntry): readonly StoredValue[] {
  switch (entry.kind) {
    case "checkpoint":
      return [entry.checkpoint, entry.metadata, ...Object.values(entry.values).map(([, value]) => value)];
    case "writes":
      return entry.writes.map(({ value }) => value);
    case "deletion":
      return [];
  }
}

/** `values` in the order of {@link valuesIn}. */
function withValues(entry: ThreadEntry, values: readonly StoredValue[]): ThreadEntry {
  switch (entry.kind) {
    case "checkpoint": {
      const [checkpoint, metadata, ...others] = values;
      const channels = Object.entries(entry.values).map(
        ([channel, [version]], i) => [channel, [version, others[i]!] as const] as const,
      );
      return { ...entry, checkpoint: checkpoint!, metadata: metadata!, values: Object.fromEntries(channels) };
    }
    case "writes":
      return { ...entry, writes: entry.writes.map((write, i) => ({ ...write, value: values[i]! })) };
    case "deletion":
      return entry;
  }
}
