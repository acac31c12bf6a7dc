/** The pages on which people may use passkeys, as the settings of signatures name them. */
import { expect, test } from "vitest";
import { esignSettingsSchema } from "../../../../shared/protocol/esign-settings.ts";
import { isOriginOf } from "../../../../shared/protocol/passkey-origin.ts";

test.each([
  ["localhost", "http://localhost:4000", true],
  ["localhost", "https://localhost", true],
  ["localhost", "http://localhost.evil.example", false],
  ["localhost", "http://evil.localhost", false],
  ["localhost", "http://127.0.0.1:4000", false],
  ["example.org", "https://example.org", true],
  ["example.org", "https://sign.example.org:8443", true],
  ["example.org", "http://example.org", false],
  ["example.org", "https://evilexample.org", false],
  ["example.org", "https://example.org.evil.example", false],
  ["example.org", "https://example.org/path", false],
  ["example.org", "https://user@example.org", false],
  ["example.org", "https://example.org\n", false],
])("a page of %s has the origin %j: %j", (rpId, origin, expected) => {
  expect(isOriginOf(rpId, origin)).toBe(expected);
});

const parsed = (passkeys: object) =>
  esignSettingsSchema.safeParse({
    issuers: [
      {
        issuer: "https://login.example.org",
        keys_url: "https://login.example.org/jwks",
        client_id: "fleet-signing",
        passkeys,
      },
    ],
  });

test("passkeys are for the page of `fleet sign`, or for pages of one domain", () => {
  expect(parsed({}).data?.issuers[0]?.passkeys).toEqual({ rp_id: "localhost" });
  expect(parsed({ rp_id: "example.org", origins: ["https://sign.example.org"] }).success).toBe(true);
  for (const passkeys of [
    { rp_id: "example.org", origins: ["https://other.example"] },
    { rp_id: "example.org", origins: ["http://sign.example.org"] },
    { rp_id: "example.org", origins: ["https://sign.example.org/"] },
    { rp_id: "example.org", origins: [] },
    { rp_id: "Example.org" },
    { rp_id: "https://example.org" },
    { rp: "example.org" },
    { origins: ["http://localhost:4000"] },
    { rp_id: "localhost", origins: ["https://localhost"] },
  ])
    expect(parsed(passkeys).success, JSON.stringify(passkeys)).toBe(false);
});
