import { expect, test } from "vitest";
import { anchorFields, readAnchorSettings } from "../../../../services/watchdog/anchors/anchor-settings.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";

test.each(["/dev/zero", "/"])("the file of authorities may be no device or folder (%s)", (path) => {
  const env = { FLEET_AUDIT_TSA_URL: "https://tsa.example", FLEET_AUDIT_TSA_CA: path };
  expect(() => readAnchorSettings(readConfig(anchorFields, env))).toThrow(
    expect.objectContaining({
      problems: [{ name: "FLEET_AUDIT_TSA_CA", expected: "a file", got: `something else at ${path}` }],
    }) as Error,
  );
});
