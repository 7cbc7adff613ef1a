"""Pictures in; classes, boxes and masks out."""

import io
import pickle
import shutil

import ixion
import numpy as np
import pytest
from conftest import MODELS

SAMPLES = MODELS / "digits/samples"
SEVEN = SAMPLES / "7.png"


@pytest.fixture(scope="module")
def detector():
    return ixion.load(MODELS / "shapes_detector/shapes_detector.pnnx.param")


@pytest.fixture(scope="module")
def segmenter():
    return ixion.load(MODELS / "shapes_unet/shapes_unet.pnnx.param")


@pytest.fixture(scope="module")
def scene():
    return ixion.Picture(next((MODELS / "shapes_detector/samples").glob("*.png")))


def label(model, picture):
    return ixion.classify(model, picture)[0].label


def test_a_picture_becomes_classes(digits):
    for digit in range(10):
        best, *others = ixion.classify(digits, SAMPLES / f"{digit}.png", top=3)
        assert best.label == str(digit) and best.index == digit and len(others) == 2
        assert best.score >= others[0].score
    with pytest.raises(ixion.InputError, match="top"):
        ixion.classify(digits, SEVEN, top=0)


def test_every_form_of_a_picture(digits):
    pixels = ixion.Picture(SEVEN).to_numpy()
    assert pixels.shape[2] in (1, 3) and pixels.dtype == np.uint8
    with open(SEVEN, "rb") as file:
        for given in (str(SEVEN), SEVEN.read_bytes(), bytearray(SEVEN.read_bytes()), io.BytesIO(SEVEN.read_bytes()), file,
                      ixion.Picture(SEVEN), pixels, pixels.astype(np.float32) / 255, pixels[:, :, 0], pixels[::-1][::-1]):
            assert ixion.classify(digits, given) == ixion.classify(digits, SEVEN), given


def test_several_pictures_run_in_batches(digits):
    paths = [SAMPLES / f"{digit}.png" for digit in range(10)] * 2
    for given in (paths, tuple(paths), iter(paths), (ixion.Picture(path) for path in paths)):
        assert [best.label for best, *_ in ixion.classify(digits, given)] == list("0123456789") * 2
    assert ixion.classify(digits, []) == []
    assert len(ixion.classify(digits, [SEVEN])) == 1


def test_pictures_of_an_iterator_are_read_when_their_turn_comes(digits):
    def pictures():
        for _ in range(20):
            yield SEVEN
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        ixion.classify(digits, pictures())
    with pytest.raises(ixion.NotFoundError, match=r"nothing\.png"):
        ixion.classify(digits, [SEVEN, "nothing.png"])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_images_of_pillow_are_what_their_files_are(tmp_path, mode):
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    colors = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
    if mode == "I;16":
        given = image.fromarray(colors.view(np.uint16)[:, :, 0].copy())
    else:
        given = image.fromarray(colors).convert("RGB" if mode in ("CMYK", "YCbCr", "P", "1") else "RGBA").convert(mode)
    assert given.mode == mode
    found = ixion.Picture(given)
    assert (found.height, found.width) == (5, 7)
    if mode in ("CMYK", "YCbCr"):
        assert found == ixion.Picture(given.convert("RGB"))
    else:
        given.save(tmp_path / "it.png")
        assert found == ixion.Picture(tmp_path / "it.png")


@pytest.mark.parametrize("picture", ["nothing.png", 3, None, np.zeros(4, np.float32), np.zeros((0, 0, 3), np.uint8), b"no picture",
                                     np.zeros((4, 4, 7), np.uint8), np.zeros((4, 4), np.int64), b"", io.StringIO("text"), object(),
                                     np.zeros((3, 4, 4), np.uint8), __file__])
def test_what_is_no_picture(digits, picture):
    for function in (ixion.Picture, lambda picture: ixion.classify(digits, picture), lambda picture: ixion.draw(picture, [])):
        with pytest.raises(ixion.Error) as raised:
            function(picture)
        assert str(raised.value)


def test_pictures_are_arrays(scene, tmp_path):
    assert np.asarray(scene).shape == (scene.height, scene.width, scene.channels)
    assert np.asarray(scene, np.float32).dtype == np.float32
    scene.save(tmp_path / "copy.png")
    assert scene == ixion.Picture(tmp_path / "copy.png") == pickle.loads(pickle.dumps(scene)) == ixion.Picture(np.asarray(scene))
    with pytest.raises(ixion.Error):
        scene.save(tmp_path / "no/such/folder.png")
    for name in ("it.jpg", "it.jpeg", "it.npy"):
        with pytest.raises(ixion.InputError, match=r"only PNG files can be written; save .*it\.png"):
            scene.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for name in ("it", "it.PNG"):
        scene.save(tmp_path / name)
        assert ixion.Picture((tmp_path / name).read_bytes()) == scene


def test_a_picture_becomes_boxes(detector, scene):
    found = ixion.detect(detector, scene)
    assert found and all(box.label in ("circle", "square", "triangle", "star") for box in found)
    assert [box.score for box in found] == sorted((box.score for box in found), reverse=True)
    for box in found:
        assert box.box == (box.left, box.top, box.right, box.bottom)
        assert box.left < box.right and box.top < box.bottom
    assert len(ixion.detect(detector, scene, confidence=0)) >= len(found)
    assert ixion.detect(detector, scene, confidence=1) == []
    assert ixion.detect(detector, [scene, scene]) == [found, found]
    for name in ("confidence", "iou"):
        for share in (-0.1, 1.1, float("nan")):
            with pytest.raises(ixion.InputError, match=name):
                ixion.detect(detector, scene, **{name: share})


def test_a_picture_becomes_a_mask(segmenter, tmp_path):
    picture = ixion.Picture(next((MODELS / "shapes_unet/samples").glob("*.png")))
    mask = ixion.segment(segmenter, picture)
    assert mask.classes.shape == (mask.height, mask.width) == (picture.height, picture.width)
    assert mask.classes.dtype == np.uint8 and np.array_equal(np.asarray(mask), mask.classes)
    assert sum(mask.counts.values()) == mask.classes.size and set(mask.counts) <= {*mask.labels, "none"}
    mask.save(tmp_path / "mask.png")
    with pytest.raises(ixion.InputError, match=r"save .*mask\.png"):
        mask.save(tmp_path / "mask.jpg")
    image = pytest.importorskip("PIL.Image", reason="pip install pillow")
    assert np.array_equal(np.asarray(image.open(tmp_path / "mask.png")), mask.classes)


def test_what_was_found_is_drawn(detector, segmenter, scene):
    drawn = ixion.draw(scene, ixion.detect(detector, scene))
    assert drawn.channels == 3 and drawn != ixion.draw(scene, [])
    mask = ixion.segment(segmenter, scene)
    assert ixion.draw(scene, mask) != ixion.draw(scene, [])
    with pytest.raises(ixion.InputError):
        ixion.draw(np.zeros((3, 3), np.uint8), mask)
    for found in (3, [3], "boxes", None):
        with pytest.raises(ixion.InputError, match="found"):
            ixion.draw(scene, found)


def test_findings_can_be_made_by_hand():
    """As those of another detector, with any number as a class."""
    box = ixion.Detection(2**60, "anything", 0.5, (40, 40, 160, 160), (255, 0, 0))
    drawn = ixion.draw(np.full((300, 300, 3), 255, np.uint8), [box]).to_numpy()
    assert (drawn == (255, 0, 0)).all(2).any()
    assert ixion.Detection(0, "x", 0.5, (0, 0, 1, 1)).color == ixion.Detection(0, "y", 0.5, (0, 0, 1, 1)).color
    odd = ixion.Detection(1, "odd", float("nan"), (float("nan"), -1e30, float("inf"), 1e30))
    assert ixion.draw(np.zeros((300, 300, 3), np.uint8), [odd, odd]).height == 300
    mask = ixion.Mask(np.array([[0, 1], [1, 255]], np.uint8), ["sky", "sea"])
    assert mask.counts == {"sky": 1, "sea": 2, "none": 1}
    for classes in (np.zeros(3, np.uint8), np.zeros((2, 2)), np.zeros((0, 2), np.uint8), None):
        with pytest.raises(ixion.InputError):
            ixion.Mask(classes)


def test_findings_travel_between_processes(digits, detector, segmenter, scene):
    for found in (ixion.classify(digits, SEVEN), ixion.detect(detector, scene)):
        assert found and pickle.loads(pickle.dumps(found)) == found
    mask = ixion.segment(segmenter, scene)
    again = pickle.loads(pickle.dumps(mask))
    assert np.array_equal(again.classes, mask.classes) and (again.labels, again.counts) == (mask.labels, mask.counts)
    assert ixion.draw(scene, again) == ixion.draw(scene, mask)


# Cards.


@pytest.fixture
def copied(tmp_path):
    """Copies a model and gives it another card, or none."""
    def copy(card: "bytes | None"):
        for ending in ("param", "bin"):
            shutil.copy(MODELS / f"digits/digits.pnnx.{ending}", tmp_path)
        if card is not None:
            (tmp_path / "model.toml").write_bytes(card)
        return ixion.load(tmp_path / "digits.pnnx.param")
    return copy


def test_a_task_that_a_model_does_not_have(digits):
    for task in (ixion.detect, ixion.segment):
        with pytest.raises(ixion.InputError, match='"classify"'):
            task(digits, SEVEN)


def test_a_model_without_a_card(copied):
    model = copied(None)
    with pytest.raises(ixion.InputError, match=r"model\.toml"):
        ixion.classify(model, SEVEN)
    for what in (3, None, "digits", np.zeros(3)):
        with pytest.raises(ixion.InputError, match="model"):
            ixion.classify(what, SEVEN)


@pytest.mark.parametrize("card", [b"name = 1", b'name = "x"\ntask = "classify"\nunknown = 1', b"\xff\xfe", b"name"])
def test_a_card_that_is_wrong(copied, card):
    model = copied(card)
    with pytest.raises(ixion.ModelError, match=r"model\.toml"):
        ixion.classify(model, SEVEN)


def test_a_card_as_an_option(copied, tmp_path):
    copied(None)
    card = (MODELS / "digits/model.toml").read_text(encoding="utf-8")
    model = ixion.load(tmp_path / "digits.pnnx.param", card=card)
    assert label(model, SEVEN) == "7"
    ixion.build(tmp_path / "digits.pnnx.param", card=card).save(tmp_path / "digits.plan")
    assert label(ixion.load(tmp_path / "digits.plan"), SEVEN) == "7"


def test_models_with_several_inputs_take_no_pictures():
    path = MODELS / "two_inputs/two_inputs.pnnx.param"
    model = ixion.load(path, card='name = "two"\ntask = "classify"\n')
    with pytest.raises(ixion.InputError, match="one input"):
        ixion.classify(model, SEVEN)
