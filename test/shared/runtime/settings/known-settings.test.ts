// A mistyped setting is found, and no other variable is taken for one.

import { expect, test } from "vitest";
import { SETTING_NAMES, unknownSettings } from "../../../../shared/runtime/settings/known-settings.ts";

test("an unknown FLEET_ name is found with the name that was probably meant, and without its value", () => {
  const env = {
    FLEET_SOTRE: "lmdb:./hunter2",
    FLEET_BANANA: "1",
    FLEET_STORE: "x",
    FLEET_UNSET: "",
    OTHER: "1",
  };
  expect(unknownSettings(env)).toEqual([
    { name: "FLEET_BANANA" },
    { name: "FLEET_SOTRE", meant: "FLEET_STORE" },
  ]);
});

test("the settings of all processes and the variables of tests are known", () => {
  const env = Object.fromEntries([...SETTING_NAMES, "FLEET_TEST_LOG"].map((name) => [name, "1"]));
  expect(unknownSettings(env)).toEqual([]);
});

test("variables that Kubernetes adds for a Service are known, and a mistyped port is not", () => {
  const links = {
    FLEET_PORTAL_SERVICE_HOST: "10.0.0.1",
    FLEET_PORTAL_SERVICE_PORT_HTTP: "80",
    FLEET_PORTAL_PORT: "tcp://10.0.0.1:80",
    FLEET_PORTAL_PORT_80_TCP_ADDR: "10.0.0.1",
  };
  expect(unknownSettings(links)).toEqual([]);
  expect(unknownSettings({ ...links, FLEET_PORTAL_PORT: "80" })).toMatchObject([
    { name: "FLEET_PORTAL_PORT" },
  ]);
});
