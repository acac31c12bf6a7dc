import { expect, test } from "vitest";
import type { ThreadEntry } from "../../../../shared/protocol/langgraph-entry.ts";
import { ThreadCache } from "../../../../shared/sdk/langgraph/thread-cache.ts";

const writes = (chars: number): ThreadEntry => ({
  ...{ kind: "writes", thread_id: "t", ns: "", checkpoint_id: "c", task_id: "t", task_path: "" },
  writes: [{ idx: 0, channel: "value", value: ["json", "x".repeat(chars)] }],
});
const read = (chars: number) => ({ seq: 1, entries: [writes(chars)] });

test("the threads that were used last stay within the limit", () => {
  const cache = new ThreadCache(35_000);
  for (const task of ["a", "b", "c"]) cache.set(task, read(10_000));
  expect(cache.get("a")).toBeDefined();
  cache.set("d", read(10_000));
  expect(["a", "b", "c", "d"].filter((task) => cache.get(task) !== undefined)).toEqual(["a", "c", "d"]);
});

test("a thread that is read again counts once, and one beyond the limit is not kept", () => {
  const cache = new ThreadCache(35_000);
  for (let n = 0; n < 10; n += 1) cache.set("a", read(10_000));
  cache.set("b", read(10_000));
  expect(cache.get("a")).toBeDefined();
  cache.set("large", read(50_000));
  expect(cache.get("large")).toBeUndefined();
  cache.set("c", read(10_000));
  expect(cache.get("c")).toBeDefined();
});
