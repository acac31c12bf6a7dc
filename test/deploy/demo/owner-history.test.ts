/** The demo's check of an audit trail fails if two agents owned a task at once, or if another agent than the owner wrote. */
import { expect, test } from "vitest";
import { type OwnershipEntry, ownerHistory } from "../../../deploy/demo/owner-history.ts";

const entry = (op: string, id: string, fence: number): OwnershipEntry => ({
  op,
  actor: { id, type: "agent" },
  fence,
});
const service = (op: string, fence: number): OwnershipEntry => ({
  op,
  actor: { id: "watchdog", type: "service" },
  fence,
});

const handedOver: readonly OwnershipEntry[] = [
  entry("take", "a", 1),
  entry("create", "a", 1),
  entry("handoff", "a", 1),
  entry("offer", "coordinator", 1),
  entry("acknowledge", "b", 2),
  entry("create", "b", 2),
  entry("confirm", "b", 2),
];

const recovered: readonly OwnershipEntry[] = [
  entry("take", "a", 1),
  entry("create", "a", 1),
  service("fail", 2),
  service("recover", 2),
  service("handoff", 2),
  entry("acknowledge", "b", 3),
  entry("create", "b", 3),
];

test("after a failure the task has no owner until the next agent takes it", () => {
  const owners = ["a (fence 1)", "no owner (fence 2)", "b (fence 3)"];
  expect(ownerHistory(recovered)).toEqual({ isExclusive: true, owners });
});

test("owners follow one after the other", () => {
  expect(ownerHistory(handedOver)).toEqual({ isExclusive: true, owners: ["a (fence 1)", "b (fence 2)"] });
});

test.each<[string, OwnershipEntry[]]>([
  ["the superseded agent writes", [...handedOver, entry("create", "a", 2)]],
  ["a write under the previous fence", [...handedOver, entry("create", "b", 1)]],
  ["two owners under one fence", [...handedOver, entry("acknowledge", "c", 2)]],
  ["a missing fence", [...handedOver, entry("take", "c", 4)]],
  ["a write before the first owner", [entry("create", "a", 0), ...handedOver]],
  ["no owner at all", []],
  ["the failed agent writes again", [...recovered.slice(0, 3), entry("create", "a", 2)]],
  ["the failed agent keeps its fence", [...recovered.slice(0, 2), service("fail", 1)]],
  ["a service hands off a task that has an owner", [...handedOver, service("handoff", 2)]],
])("not exclusive: %s", (_, trail) => expect(ownerHistory(trail).isExclusive).toBe(false));
