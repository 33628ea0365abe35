// What a client in another language has to do, and no more: it asks for a job, executes it, and reads its result.
//
// usage: node foreign_client.mjs CONTROL_ADDRESS EXECUTION_ADDRESS
//
// The protos are loaded when it runs; nothing is generated. It prints a line for each thing that it saw, and ends with
// 0 only if all of them were as the contract says.
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { canonical } from "./canonical_json.mjs";
import { Session } from "./session.mjs";

const PROTOS = fileURLToPath(new URL("../../protos", import.meta.url));
const CALL_MILLISECONDS_MAX = 10_000;
const WHOLE_MILLISECONDS_MAX = 60_000;

const definitions = loadSync(["baton/v1/job_control.proto", "baton/v1/execution_service.proto"], {
  includeDirs: [PROTOS],
  keepCase: true, // names as the protos have them
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { JobControl, ExecutionService } = grpc.loadPackageDefinition(definitions).baton.v1;
// Nothing of the environment's proxies is meant for these addresses.
const options = { "grpc.enable_http_proxy": 0 };

function call(client, method, request) {
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + CALL_MILLISECONDS_MAX;
    client[method](request, { deadline }, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

async function createsAJob(control) {
  const request = {
    job_type: "synthetic",
    input: Buffer.from(JSON.stringify({ items: 4, note: "from Node: ünïcode ✓" })),
    idempotency_key: `node-${randomUUID()}`,
  };
  const first = await call(control, "CreateJob", request);
  const again = await call(control, "CreateJob", request);
  assert.equal(again.job.job_id, first.job.job_id);
  assert.deepEqual([first.replayed, again.replayed], [false, true]);
  return first.job.job_id;
}

function says(session) {
  return {
    executor_name: "node",
    incarnation_id: session.incarnation,
    runtime: `node/${process.versions.node}`,
    capabilities: [{ job_type: "synthetic", input_schema_versions: [1], output_schema_versions: [1] }],
  };
}

async function takesTheLease(session) {
  session.send({ hello: says(session) });
  const { welcome } = await session.until((frame) => frame.welcome);
  assert.ok(welcome.session_id);
  session.send({ credits: [{ queue: "drill", count: 1 }] });
  const { leases } = await session.until((frame) => frame.leases.length > 0);
  assert.equal(leases.length, 1, "there was one credit");
  return leases[0];
}

async function heartbeats(session, ref, progress, message) {
  const number = session.heartbeat({ lease: ref, progress, progress_message: message });
  await session.until((frame) => Number(frame.heartbeats_recorded) >= number);
}

function success(output) {
  const text = canonical(output);
  return { output: Buffer.from(text), output_hash: createHash("sha256").update(text).digest("hex") };
}

async function staysRefused(execution, ref, done) {
  const again = await call(execution, "ReportResult", { lease: ref, success: done });
  assert.equal(again.answer.outcome, "REPORT_OUTCOME_ACCEPTED", "the same report gets the same answer");
  const stranger = { job_id: ref.job_id, token: `1.${"A".repeat(22)}` };
  await assert.rejects(call(execution, "ReportResult", { lease: stranger, success: done }), {
    code: grpc.status.FAILED_PRECONDITION,
  });
}

async function main([controlAddress, executionAddress]) {
  const control = new JobControl(controlAddress, grpc.credentials.createInsecure(), options);
  const execution = new ExecutionService(executionAddress, grpc.credentials.createInsecure(), options);
  const jobId = await createsAJob(control);
  console.log(`created ${jobId}, and asking again gave the same job`);

  const session = new Session(execution.OpenSession());
  const lease = await takesTheLease(session);
  const ref = { job_id: lease.job_id, token: lease.token };
  const input = JSON.parse(lease.input.toString());
  assert.equal(lease.job_id, jobId);
  assert.equal(input.note, "from Node: ünïcode ✓");
  console.log(`leased attempt ${lease.attempt}`);

  await heartbeats(session, ref, 0, "");
  await heartbeats(session, ref, 50, "half-way, says Node");
  const { job: running } = await call(control, "GetJob", { job_id: jobId });
  assert.deepEqual([running.state, running.attempt], ["JOB_STATE_RUNNING", 1]);
  assert.deepEqual([running.progress, running.progress_message], [50, "half-way, says Node"]);
  console.log("running at 50 per cent");

  const output = { padding: "", items: input.items, attempt: lease.attempt };
  const done = success(output);
  session.send({ reports: [{ lease: ref, success: done }] });
  const { answers } = await session.until((frame) => frame.answers.length > 0);
  assert.equal(answers[0].outcome, "REPORT_OUTCOME_ACCEPTED", answers[0].message);
  await session.goodbye();
  console.log("reported, and the service closed after the goodbye");

  await staysRefused(execution, ref, done);
  const { job } = await call(control, "GetJob", { job_id: jobId });
  assert.deepEqual([job.state, job.progress, job.output_hash], ["JOB_STATE_SUCCEEDED", 100, done.output_hash]);
  const stored = await call(control, "GetJobOutput", { job_id: jobId });
  assert.deepEqual(JSON.parse(stored.output.toString()), output);
  console.log("succeeded, and the output is what was reported");
  control.close();
  execution.close();
}

setTimeout(() => {
  console.error(`not done after ${WHOLE_MILLISECONDS_MAX / 1000} s`);
  process.exit(1);
}, WHOLE_MILLISECONDS_MAX).unref();
await main(process.argv.slice(2));
