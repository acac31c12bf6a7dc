/** The demo's reading of an audit trail says no where two agents had a task at once, or wrote out of turn. */
import { expect, test } from "vitest";
import { type Entry, oneOwner } from "../../../deploy/demo/owners.ts";

const entry = (op: string, id: string, fence: number): Entry => ({ op, actor: { id, type: "agent" }, fence });
const service = (op: string, fence: number): Entry => ({
  op,
  actor: { id: "watchdog", type: "service" },
  fence,
});

const handedOver: readonly Entry[] = [
  entry("take", "a", 1),
  entry("create", "a", 1),
  entry("handoff", "a", 1),
  entry("offer", "coordinator", 1),
  entry("acknowledge", "b", 2),
  entry("create", "b", 2),
  entry("confirm", "b", 2),
];

const recovered: readonly Entry[] = [
  entry("take", "a", 1),
  entry("create", "a", 1),
  service("fail", 2),
  service("recover", 2),
  service("handoff", 2),
  entry("acknowledge", "b", 3),
  entry("create", "b", 3),
];

test("who failed is followed by nobody, and then by the next", () => {
  const owners = ["a (fence 1)", "nobody (fence 2)", "b (fence 3)"];
  expect(oneOwner(recovered)).toEqual({ held: true, owners });
});

test("one after the other", () => {
  expect(oneOwner(handedOver)).toEqual({ held: true, owners: ["a (fence 1)", "b (fence 2)"] });
});

test.each<[string, Entry[]]>([
  ["the agent before writes", [...handedOver, entry("create", "a", 2)]],
  ["a write under the fence before", [...handedOver, entry("create", "b", 1)]],
  ["two owners under one fence", [...handedOver, entry("acknowledge", "c", 2)]],
  ["a fence was left out", [...handedOver, entry("take", "c", 4)]],
  ["a write before anybody had it", [entry("create", "a", 0), ...handedOver]],
  ["nobody ever had it", []],
  ["who failed writes once more", [...recovered.slice(0, 3), entry("create", "a", 2)]],
  ["who failed keeps its fence", [...recovered.slice(0, 2), service("fail", 1)]],
  ["a service hands off what somebody has", [...handedOver, service("handoff", 2)]],
])("not held: %s", (_, trail) => expect(oneOwner(trail).held).toBe(false));
