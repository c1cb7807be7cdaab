import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.hami.vendors import ANNOTATIONS
from bot.kube.models import (
    ConfigMap,
    Container,
    Event,
    MutatingWebhookConfiguration,
    ObjectMeta,
    Pod,
    PodSpec,
    Webhook,
    Workload,
)
from bot.kube.models.workloads import PodTemplate, WebhookClientConfig, WorkloadSpec
from bot.kube.recording.redact import masked, masked_log, redacted
from tests.growth import grows_faster

SECRET = "c4n4ryS3cr3tV4lu3xx"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{SECRET}/+\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Authorization: Bearer {SECRET}", "Authorization: ***"),
        (f"authorization=Basic {SECRET}==, next", "authorization=***, next"),
        (f"sent bearer {SECRET} to x", "sent bearer *** to x"),
        (f"GET /x?token={SECRET}&y=1", "GET /x?token=***&y=1"),
        (f"HF_TOKEN={SECRET} python", "HF_TOKEN=*** python"),
        (f"password: {SECRET}, user: x", "password: ***, user: x"),
        (f'password="two {SECRET}" user="x"', 'password=*** user="x"'),
        (f"password='two {SECRET}' x", "password=*** x"),
        (f'{{"passwd": "a\\"{SECRET}", "x": 1}}', '{"passwd": ***, "x": 1}'),
        (f'"{{\\"apiKey\\":\\"two {SECRET}\\",\\"x\\":1}}"', '"{\\"apiKey\\":***,\\"x\\":1}"'),
        (f'token="cut off {SECRET}', "token=***"),
        (f"AWS_SECRET_ACCESS_KEY={SECRET}", "AWS_SECRET_ACCESS_KEY=***"),
        ("key AKIAABCDEFGHIJKLMNOP used", "key *** used"),
        (f"run --db-password {SECRET} --x", "run --db-password *** --x"),
        (f"DB_PASS={SECRET} privateKey: {SECRET}", "DB_PASS=*** privateKey: ***"),
        (f"https://user:p@{SECRET}@host/path", "https://***@host/path"),
        (f"https://{SECRET}@host", "https://***@host"),
        (f"got {JWT} from", "got *** from"),
        (f"key:\n{PEM}\nafter", "key:\n***\nafter"),
        (f'"{PEM}"'.replace("\n", "\\n"), '"***"'),
        (f"-----BEGIN PRIVATE KEY-----\n{SECRET}", "***"),
        ("pushed with ghp_" + "x" * 36, "pushed with ***"),
        ("hf_" + "x" * 34, "***"),
        ("xoxb-1234567890-abc", "***"),
        (f'"name":"X","value":"{SECRET}"}}', '"name":"X","value":***}'),
        (f"EnvVar{{Name:X,Value:{SECRET} b,ValueFrom:nil,}}", "EnvVar{Name:X,Value:***,ValueFrom:nil,}"),
        (f"{{Name:X Value:{SECRET} ValueFrom:<nil>}}", "{Name:X Value:*** ValueFrom:<nil>}"),
        (
            f'{{"kubectl.kubernetes.io/last-applied-configuration":"{{\\"a\\":\\"{SECRET}\\"}}\\n","b":"c"}}',
            '{"kubectl.kubernetes.io/last-applied-configuration":***,"b":"c"}',
        ),
        (f"map[kubectl.kubernetes.io/last-applied-configuration:{{a {SECRET}", None),
    ],
)
def test_what_looks_like_a_credential_is_masked_and_the_rest_kept(text, left):
    assert SECRET not in masked(text)
    if left is not None:
        assert masked(text) == left
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "text",
    [
        '0/3 nodes are available: 3 CardInsufficientMemory(gpu-1,gpu-2,gpu-3). secret "tls" not found',
        'FLAG: --tls-private-key-file="/tls/tls.key"',
        'I1121 06:10:02.3 1 filter.go:7] "pod" pod="ml/x" node="gpu-1" key="nvidia.com/gpu" value=1',
        "couldn't find key token in ConfigMap ml/x",
        "invalid bearer token",
        "https://10.0.0.1:443/api and docker-pullable://nvidia/cuda@sha256:abc",
        '"f:kubectl.kubernetes.io/last-applied-configuration":{},"f:hami.io/node-handshake":{}',
        "sk-learn-training-job-0 on gpu-1",
        "secretName: tls",
        "bypass=true, 3 passed: yes",
    ],
)
def test_what_a_diagnosis_quotes_is_left_as_it_is(text):
    assert masked(text) == text


PIECES = (
    "last-applied-configuration|Name:|Name:a Value:|,ValueFrom:|authorization|bearer |basic |token|password|secrets|"
    "api_key|--|-|a|=|:|***|://|@|/|cookie:|hooks.slack.com/|sig=|&|eyJ|eyJ-|eyJaaaaa|.|ghp_|sk-|xox|AKIA|,|{|pass|pwd|"
    '"name":"a","value":"|"name"|"|\'|\\|\\"|token="|key= |--token |-----BEGIN A-----\n|-----BEGIN |-----END |\n'
)


@pytest.mark.parametrize("piece", PIECES.split("|"))
def test_no_text_makes_masking_grow_faster_than_itself(piece):
    for before in ("", "ValueFrom: -----BEGIN -- eyJ token= cookie: ", f"{piece}x", "authorization:", 'token="'):
        for repeated in (piece, f"{piece} ", f"a{piece}", f"{piece}\n"):

            def text(length, before=before, repeated=repeated):
                return f"{before}{repeated * (length // len(repeated))}"

            assert not grows_faster(masked, text, 4000), (before, repeated)


def test_of_a_long_text_only_the_beginning_is_masked_and_no_half_credential_is_left():
    text = "x" * 30 + " token=a" * 1_000
    assert masked(text, 100) == masked(f"{text}{text}", 100) == masked(text)[:100]
    for at in range(180, 205):
        for credential in (f"https://u:{SECRET}@host", f"key={SECRET}", f"Name:A,Value:{SECRET},ValueFrom:nil", JWT):
            left = masked(f"{'pass=x' * 30 + ' '}{'-' * (at - 180)}{credential} and more {'x' * 300}", 100)
            assert len(left) <= 100
            assert SECRET[:4] not in left
            assert JWT.split(".")[1][:4] not in left


def test_a_key_over_several_lines_of_a_log_is_masked():
    assert masked_log(["before", *PEM.split("\n"), "token=x"]) == "before\n***\ntoken=***\n"


@given(st.lists(st.text(st.characters(exclude_characters="\n"))))
def test_a_log_without_credentials_is_written_as_it_is(lines):
    plain = [line.replace("=", "").replace(":", "") for line in lines]
    assert masked_log(plain) == "".join(f"{line}\n" for line in plain)


def command(value):
    return value["spec"]["containers"][0].get("command")


def scheduler(*arguments, name="vgpu-scheduler-extender", labels=None):
    return Pod(ObjectMeta(labels=labels), PodSpec(containers=[Container(name=name, command=list(arguments))]))


def test_command_lines_are_kept_of_hami_s_own_containers_only():
    labels = {"app.kubernetes.io/component": "hami-device-plugin"}
    assert command(redacted(scheduler("run"))) == ["run"]
    assert command(redacted(scheduler("run", name="device-plugin", labels=labels))) == ["run"]
    assert command(redacted(scheduler("run", name="sidecar", labels=labels))) is None
    assert command(redacted(scheduler("run", name="kube-scheduler"))) is None


def test_a_pod_template_is_treated_as_a_pod():
    spec = scheduler("run").spec
    template = PodTemplate(ObjectMeta(annotations={"x": "y"}), spec)
    kept = redacted(Workload(spec=WorkloadSpec(template=template)))["spec"]["template"]
    assert command(kept) == ["run"]
    assert kept["metadata"]["annotations"] == {}


def test_the_value_of_a_secret_flag_is_masked_and_a_path_kept():
    arguments = [
        "--token=x",
        "--api-key",
        "x",
        "--key_file=/tls.key",
        "--private-key",
        "--v=4",
        "-v=4",
        "--password",
        "x",
    ]
    kept = [
        "--token=***",
        "--api-key",
        "***",
        "--key_file=/tls.key",
        "--private-key",
        "--v=4",
        "-v=4",
        "--password",
        "***",
    ]
    assert command(redacted(scheduler(*arguments))) == kept


def test_annotations_are_kept_by_name():
    kept = {"hami.io/vgpu-node": "n", "nvidia.com/use-gputype": "A100", "predicate-time": "1", "AWS_NEURON_IDS": "0"}
    dropped = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "team.example.com/note": "x",
        "x-hami.io/": "x",
    }
    kept |= {"volcano.sh/node-vgpu-register": "GPU-a,10,24576,NVIDIA-A10,true", "4pd.io/node-handshake": "Reported"}
    value = redacted(Pod(ObjectMeta(annotations=kept | dropped)), ANNOTATIONS)
    assert value["metadata"]["annotations"] == kept


def test_labels_are_kept_whatever_they_are_called():
    labels = {"message": "token=x", "annotations": "x", "command": "x"}
    assert redacted(Pod(ObjectMeta(labels=labels)))["metadata"]["labels"] == labels


def test_messages_are_masked():
    assert redacted(Event(message="token=x"))["message"] == "token=***"


def test_of_config_maps_only_hami_s_own_files_are_kept():
    data = {"device-config.yaml": "nvidia:\n  password: x\n", "config.json": "{}", "other": "x"}
    assert redacted(ConfigMap(data=data))["data"] == {"device-config.yaml": "nvidia:\n  password: ***\n"}
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    assert redacted(ConfigMap(ObjectMeta(labels=labels), {"config.yaml": "a: b", "x": "y"}))["data"] == {
        "config.yaml": "a: b"
    }
    assert redacted(ConfigMap(data={"config.yaml": "a: b"}))["data"] == {}


def test_a_webhooks_certificate_and_the_credentials_in_its_url_are_masked():
    clients = [WebhookClientConfig(url=f"https://me:{SECRET}@host/webhook"), WebhookClientConfig(ca_bundle=SECRET)]
    value = redacted(MutatingWebhookConfiguration(webhooks=[Webhook(client_config=client) for client in clients]))
    kept = [webhook["clientConfig"] for webhook in value["webhooks"]]
    assert kept == [{"url": "https://***@host/webhook"}, {"caBundle": "***"}]
