import { describe, expect, test } from "vitest";
import {
  isPrincipal,
  parsePrincipal,
  personOf,
  principalLabel,
  principalToken,
} from "../../../shared/protocol/principal.ts";

describe("the token of", () => {
  test.each([
    ["ada", { kind: "agent", name: "ada" }],
    ["human", { kind: "agent", name: "human" }],
    ["human=ada", { kind: "human", name: "ada" }],
  ] as const)("%s is parsed and made again", (token, principal) => {
    expect(parsePrincipal(token)).toEqual(principal);
    expect(principalToken(principal)).toBe(token);
  });

  test.each([
    "",
    "human=",
    "human=a=b",
    "Human=ada",
    "agent=ada",
    "=writer",
    // The sender of the messages that the fleet itself writes.
    "fleet",
    "human=a.b",
    "human=*",
    "a=",
    `human=${"x".repeat(65)}`,
  ])("no principal: %j", (token) => {
    expect(isPrincipal(token)).toBe(false);
    expect(parsePrincipal(token)).toBeUndefined();
    expect(principalLabel(token)).toBe(token);
  });
});

test.each([
  ["ada", "human=ada"],
  ["Ada Lovelace", "human=Ada-Lovelace"],
  ["zoë@corp", "human=zoe-corp"],
  ["human=ada", "human=human-ada"],
  ["", "human=unknown"],
  ["x".repeat(200), `human=${"x".repeat(64)}`],
])("an account named %j becomes a person", (account, token) => {
  expect(personOf(account)).toBe(token);
  expect(isPrincipal(token)).toBe(true);
});

test("people read the name of a person and the id of an agent", () => {
  expect([principalLabel("human=ada"), principalLabel("agent-7")]).toEqual(["ada (person)", "agent-7"]);
});
