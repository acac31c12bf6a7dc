/** Every operation of the bus is in the HTTP API, or has a reason not to be. */
import { expect, test } from "vitest";
import { roleOperations } from "../../../../shared/protocol/operation-rights.ts";
import { COMMAND_OPS, isAnsweredOp, QUERY_OPS } from "../../../../shared/protocol/operations.ts";
import { BUS_ONLY, REST_ROUTES } from "../../../../shared/protocol/rest/routes.ts";
import { operationsOfRoute, scopedOperations } from "../../../../shared/protocol/rest/scoped-operations.ts";

const OPS: readonly string[] = [...COMMAND_OPS, ...QUERY_OPS.filter(isAnsweredOp)];
const routed = new Set(REST_ROUTES.flatMap(operationsOfRoute).map((name) => name.split(".")[1]!));

test("every command and every query has a route, or a reason in BUS_ONLY", () => {
  const missing = OPS.filter((op) => !routed.has(op) && !Object.hasOwn(BUS_ONLY, op)).map(
    (op) =>
      `${op}: add a route to shared/protocol/rest/routes.ts (of a command also its answer in ANSWER_KIND of ` +
      "shared/protocol/generate/openapi.ts), run `npm run generate`, and call it in " +
      "test/fleet/gateway/operations.test.ts; or add the op to BUS_ONLY with the reason",
  );
  expect(missing).toEqual([]);
});

test("BUS_ONLY names operations that exist and have no route, each with a reason", () => {
  for (const [op, reason] of Object.entries(BUS_ONLY)) {
    expect(OPS, op).toContain(op);
    expect(routed, `${op} has a route; remove it from BUS_ONLY`).not.toContain(op);
    expect(reason, op).toMatch(/\w+ \w+/);
  }
});

test("every route has its own id, and its own method and path", () => {
  const distinct = (names: readonly string[]) => expect(new Set(names).size).toBe(names.length);
  distinct(REST_ROUTES.map(({ id }) => id));
  distinct(REST_ROUTES.map(({ method, path }) => `${method} ${path.replace(/\{\w+\}/g, "{}")}`));
});

test("scopes leave the operations of their routes, and nothing that no role may do", () => {
  expect([...scopedOperations(["createCheckpoint"])]).toEqual(["cmd.create"]);
  const reading = scopedOperations(["tasks:read", "checkpoints:read"]);
  expect(reading).toContain("query.latest");
  expect([...reading].filter((name) => name.startsWith("cmd."))).toEqual([]);
  const ofRoles = new Set(Object.values(roleOperations()).flat());
  const unknown = REST_ROUTES.flatMap(operationsOfRoute).filter((name) => !ofRoles.has(name));
  expect(unknown).toEqual([]);
});
