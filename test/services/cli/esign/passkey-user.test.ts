/** The name under which an authenticator keeps the passkey of a person. */
import { expect, test } from "vitest";
import { passkeyUser } from "../../../../services/cli/commands/esign/passkey-user.ts";

test("one person has another name in each fleet and tenant, and the same in one", () => {
  const ada = { issuer: "https://login.example", subject: "ada" };
  const names = [
    passkeyUser({ fleet: "fleet-1", tenant: "default" }, ada),
    passkeyUser({ fleet: "fleet-2", tenant: "default" }, ada),
    passkeyUser({ fleet: "fleet-1", tenant: "acme" }, ada),
    passkeyUser({ fleet: undefined, tenant: "default" }, ada),
    passkeyUser({ fleet: "fleet-1", tenant: "default" }, { ...ada, subject: "grace" }),
    passkeyUser({ fleet: "fleet-1", tenant: "default" }, { ...ada, issuer: "https://other.example" }),
  ];
  expect(new Set(names).size).toBe(names.length);
  expect(passkeyUser({ fleet: "fleet-1", tenant: "default" }, { ...ada })).toBe(names[0]);
  for (const name of names) expect(name).toMatch(/^[\w-]{43}$/);
});
