/** The bodies of requests: the names of their members are the ones that the caller has sent. */
import { expect, test } from "vitest";
import { readMembers } from "../../../services/gateway/http/body.ts";

test("a name with an escape is read as it is, after any other body", async () => {
  for (const name of ["\\\\srv", "\\srvx"]) {
    const members = { A: 1, [name]: 2 };
    const headers = { "content-type": "application/json" };
    const request = new Request("http://fleet/", { method: "POST", headers, body: JSON.stringify(members) });
    expect(Object.entries(await readMembers(request))).toEqual(Object.entries(members));
  }
});
